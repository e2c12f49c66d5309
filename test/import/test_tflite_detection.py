"""TFLite_Detection_PostProcess against ai-edge-litert."""

import numpy as np
import pytest

import clave

pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert is installed")
flexbuffers = pytest.importorskip("flatbuffers.flexbuffers")
from _tflite import peer
from _tflite_models import custom

rng = np.random.default_rng(8)
SCALES = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
USUAL = SCALES | {"max_detections": 10, "max_classes_per_detection": 1, "num_classes": 3, "nms_score_threshold": 0.3}
USUAL |= {"nms_iou_threshold": 0.5, "detections_per_class": 100, "use_regular_nms": False}


def options(**changed):
    return bytes(flexbuffers.Dumps({k: v for k, v in (USUAL | changed).items() if v is not None}))


def inputs(n, classes, clusters=6):
    """Encodings and anchors of boxes that overlap in groups, and scores without ties."""
    centers = rng.random((clusters, 2))[rng.integers(0, clusters, n)] + rng.normal(0, 0.02, (n, 2))
    anchors = np.concatenate([centers, 0.2 + 0.1 * rng.random((n, 2))], 1).astype(np.float32)
    scores = rng.permutation(n * classes).reshape(1, n, classes).astype(np.float32) / (n * classes)
    return [rng.normal(0, 0.5, (1, n, 4)).astype(np.float32), scores], anchors


CASES = {
    "usual": (40, 4, {}),
    "no_background": (40, 3, {}),
    "by_class": (40, 4, {"use_regular_nms": True}),
    "few_by_class": (40, 4, {"use_regular_nms": True, "detections_per_class": 2, "max_detections": 5}),
    "few_boxes": (4, 4, {"max_detections": 12}),
    "none_found": (12, 4, {"nms_score_threshold": 2.0}),
    "all_overlap": (20, 4, {"nms_iou_threshold": 0.01, "nms_score_threshold": 0.0}),
    "default": (30, 4, {"detections_per_class": None, "use_regular_nms": None}),
}


@pytest.mark.parametrize("device", ["cpu", "opencl"])
@pytest.mark.parametrize("name", CASES)
def test_detections(name, device):
    n, classes, changed = CASES[name]
    given, anchors = inputs(n, classes)
    model = custom("TFLite_Detection_PostProcess", options(**changed), 4, given, [anchors])
    want = peer(model)(given)
    got = [np.asarray(g) for g in clave.Session(clave.from_tflite(model), device=device).run(*given)]
    assert [g.shape for g in got] == [w.shape for w in want]
    count = int(want[3][0])
    assert int(got[3][0]) == count and (count > 0) == (name != "none_found")
    for w, g in zip(want[:3], got[:3], strict=True):
        np.testing.assert_allclose(g[:, :count], w[:, :count], 1e-5, 1e-5)
        assert not g[:, count:].any()


@pytest.mark.parametrize("changed", [{"max_detections": 0}, {"y_scale": 0.0}, {"num_classes": None}])
def test_wrong_options(changed):
    given, anchors = inputs(8, 4)
    with pytest.raises(clave.Error, match="wrong options"):
        clave.from_tflite(custom("TFLite_Detection_PostProcess", options(**changed), 4, given, [anchors]))


def test_damaged_options():
    """Options that are cut or changed end in an error or in a model."""
    given, anchors = inputs(8, 4)
    whole = options()
    for i in range(len(whole)):
        for damaged in (whole[i:], whole[:i], whole[:i] + bytes([255 - whole[i]]) + whole[i + 1 :]):
            try:
                clave.from_tflite(custom("TFLite_Detection_PostProcess", damaged, 4, given, [anchors]))
            except clave.Error as e:
                assert "\n" not in str(e)
