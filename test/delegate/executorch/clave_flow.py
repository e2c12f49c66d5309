"""A pytest plugin: ExecuTorch's own backend test suite, as its wheel has it, tests ClaveBackend, and nothing else.

pytest -p clave_flow --pyargs executorch.backends.test.suite.operators
"""

import functools
import os

import executorch.backends.test.suite.flow as flows
from executorch.backends.test.harness import Tester
from executorch.backends.test.harness.stages import Quantize, StageType, ToEdgeTransformAndLower

from clave.executorch import ClavePartitioner, register
from clave.quantizer import ClaveQuantizer

register()


class ClaveTester(Tester):
    def __init__(self, module, example_inputs, dynamic_shapes=None):
        stages = Tester.default_stage_classes()
        partitioner = functools.partial(ClavePartitioner, device=os.environ.get("CLAVE_DEVICE"))
        lower = functools.partial(ToEdgeTransformAndLower, default_partitioner_cls=partitioner)
        stages[StageType.TO_EDGE_TRANSFORM_AND_LOWER] = lower
        super().__init__(module, example_inputs, stages, dynamic_shapes=dynamic_shapes)


# ExecuTorch cannot write the structure of torch.return_types.median; torch gives half the mean of a bag that ends
# before the last index.
WRONG = ["test_median_with_indices", "test_median_keepdim_with_indices", "test_embedding_bag_include_last_offset"]
INT8 = {"quantize": True, "quantize_stage_factory": lambda: Quantize(quantizer=ClaveQuantizer())}
FLOWS = [
    flows.TestFlow(name, backend="clave", tester_factory=ClaveTester, xfail_patterns=WRONG, **more)
    for name, more in (("clave", {}), ("clave_int8", INT8))
]
flows.all_flows = lambda: {f.name: f for f in FLOWS}
