"""A pytest plugin: runs ExecuTorch's own backend test suite, from its wheel, on ClaveBackend alone.

pytest -p clave_flow --pyargs executorch.backends.test.suite.operators

With CLAVE_FLOW_WHOLE, a model that is not one delegate fails, and results must be within 1e-3 of the largest value; the
suite itself allows 0.1.
"""

import functools
import os
import sys
import types

import executorch.backends.test.suite.flow as flows
import torch
from executorch.backends.test.harness import Tester
from executorch.backends.test.harness.stages import Quantize, StageType, ToEdgeTransformAndLower

from clave.executorch import ClavePartitioner, register
from clave.quantizer import ClaveQuantizer

register()
# torchvision describes these ops even if its compiled ops do not load; these models use none of them.
OPS = torch.library.Library("torchvision", "FRAGMENT")
if not hasattr(torch.ops.torchvision, "nms"):
    for name in ("nms", "qnms"):
        OPS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

# torchaudio's compiled library can be imported only with torch for CUDA, but its models do not need it.
WITHOUT = types.ModuleType("torchaudio._extension")
WITHOUT._IS_TORCHAUDIO_EXT_AVAILABLE, WITHOUT.fail_if_no_align = False, lambda function: function
sys.modules.setdefault(WITHOUT.__name__, WITHOUT)


class ClaveTester(Tester):
    def __init__(self, module, example_inputs, dynamic_shapes=None):
        stages = Tester.default_stage_classes()
        partitioner = functools.partial(ClavePartitioner, device=os.environ.get("CLAVE_DEVICE"))
        lower = functools.partial(ToEdgeTransformAndLower, default_partitioner_cls=partitioner)
        stages[StageType.TO_EDGE_TRANSFORM_AND_LOWER] = lower
        super().__init__(module, example_inputs, stages, dynamic_shapes=dynamic_shapes)

    def to_edge_transform_and_lower(self, *args, **more):
        super().to_edge_transform_and_lower(*args, **more)
        if os.environ.get("CLAVE_FLOW_WHOLE"):
            graph = self.get_artifact().exported_program().graph
            calls = [str(n.target) for n in graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]
            assert len(calls) == 1 and "call_delegate" in calls[0], calls
        return self

    def run_method_and_compare_outputs(self, *args, **more):
        if os.environ.get("CLAVE_FLOW_WHOLE"):
            more |= {"atol": 1e-3, "rtol": 1e-3}
        return super().run_method_and_compare_outputs(*args, **more)


# ExecuTorch cannot write the structure of torch.return_types.median; torch returns half the mean of a bag that ends
# before the last index.
WRONG = ["test_median_with_indices", "test_median_keepdim_with_indices", "test_embedding_bag_include_last_offset"]
INT8 = {"quantize": True, "quantize_stage_factory": lambda: Quantize(quantizer=ClaveQuantizer())}
FLOWS = [
    flows.TestFlow(name, backend="clave", tester_factory=ClaveTester, xfail_patterns=WRONG, **more)
    for name, more in (("clave", {}), ("clave_int8", INT8))
]
flows.all_flows = lambda: {f.name: f for f in FLOWS}
