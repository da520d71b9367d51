"""Errors of networks, their files, their data and their training.

ModelsError
├── NetworkError (ValueError)            a network or table breaks a rule
│   ├── FileError                        a file is no regular file, too large, or not text
│   ├── DataError                        images or labels are missing or damaged
│   ├── LayerTableError                  an entry of a layer table is malformed
│   ├── QuantisationError                a layer or tensor does not fit int16
│   ├── TailError                        the host's part of a network is malformed, or an operator of it fails
│   ├── DeviationError                   int16 is too far from float; carries a comparison (numeric/guard.py)
│   ├── AccuracyError                    int16 loses too much accuracy; carries the report (numeric/guard.py)
│   └── ModelFileError                   an ONNX file cannot be read; carries node and operator
│       └── UnsupportedOperatorError     the NPU lacks an operator; carries a suggestion
├── TrainingError (RuntimeError)         training could not run, or diverged
├── WriteError (RuntimeError)            the disk gave out while a file was written
└── BusyError (RuntimeError)             another writer is at work in a folder
"""

from __future__ import annotations

MOST_MESSAGE = 800  # characters of an error message


class ModelsError(Exception):
    """Base of all errors of this room; the message is one sentence."""


class NetworkError(ModelsError, ValueError):
    """A network, file or table breaks a rule; the message is one sentence.

    It says what must hold, what came and where. Names in it come out of files, so a character that is not
    printable (a newline, an escape sequence) is replaced.
    """

    def __init__(self, message: str) -> None:
        if len(message) > MOST_MESSAGE:
            message = message[: MOST_MESSAGE - 4] + " ..."
        super().__init__("".join(char if char.isprintable() else "?" for char in message))


class FileError(NetworkError):
    """A user's file is not regular, too large, or not the text it should be."""


class DataError(NetworkError):
    """A data set is missing or damaged; the sentence names the file and the remedy."""


class LayerTableError(NetworkError):
    """An entry of a layer table is malformed; the sentence names it."""


class QuantisationError(NetworkError):
    """A network cannot be quantised as it stands; the sentence names the layer or tensor."""


class TailError(NetworkError):
    """The host tail of a network does not hold together, or one of its operators fails; it is named."""


class ModelFileError(NetworkError):
    """A model file cannot be read; `node` and `operator` name the node that is to blame, if there is one."""

    def __init__(self, message: str, node: str | None = None, operator: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.operator = operator


class UnsupportedOperatorError(ModelFileError):
    """A node needs an operator that the NPU lacks; `suggestion` is the remedy, `fits` what kind of network
    would fit.
    """

    def __init__(self, node: str, operator: str, why: str, suggestion: str, fits: str = "") -> None:
        sentence = f"node '{node}': operator {operator} {why}; {suggestion}"
        super().__init__(f"{fits}, and {sentence}" if fits else sentence, node, operator)
        self.suggestion = suggestion


class TrainingError(ModelsError, RuntimeError):
    """Training could not run or diverged."""


class WriteError(ModelsError, RuntimeError):
    """The disk gave out while a file was written; the sentence names the file, which is as it was."""


class BusyError(ModelsError, RuntimeError):
    """Another writer is at work in a folder; the sentence names the folder."""
