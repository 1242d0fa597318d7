"""Lets torchvision, whose wheel is linked to CUDA, be imported beside a torch for CPUs.

Its compiled operators are never registered there, and the import stops at the first one that it describes. Declaring
the two that it asks for is enough: the transforms that a processor of images uses are plain Python. Python loads this
module by itself when its folder is on PYTHONPATH, also in the processes that vLLM starts.
"""

import importlib.abc
import sys

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class _Declare(importlib.abc.MetaPathFinder):
    """Declares the operators when torchvision is about to be imported; finds nothing itself."""

    def __init__(self) -> None:
        self._library = None  # the declarations last as long as this object

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision" and self._library is None:
            import torch

            if torch.version.cuda is None:
                self._library = torch.library.Library("torchvision", "DEF")
                for operator in _OPERATORS:
                    self._library.define(operator)


sys.meta_path.insert(0, _Declare())
