"""Errors that users can correct. Messages name the file or parameter, the value and the remedy.

A parameter is written in backquotes; the command line replaces it by its flag.
"""

from __future__ import annotations


class ObjectStatesError(Exception):
    """Base of all errors of this package; the command line prints them and exits with 2."""


class CorpusError(ObjectStatesError):
    """A corpus, or a file that one is made from, is invalid."""


class StorageError(ObjectStatesError):
    """A disk is full or cannot be written."""


class MemoryLackError(ObjectStatesError):
    """There is too little memory."""


class VideoError(ObjectStatesError):
    """A video, a folder of images or a list of clips cannot be read."""


class DatasetError(ObjectStatesError):
    """A dataset of robot demonstrations cannot be read or written."""


class ResultError(ObjectStatesError):
    """A result folder cannot be read or written."""


class InfeasibleClipError(ObjectStatesError):
    """A clip admits no labelling: no allowed tracklet of state 2 follows one of state 1."""


class WorkerError(ObjectStatesError):
    """A worker process died."""


class SettingError(ObjectStatesError, ValueError):
    """A parameter has an invalid value."""


class MissingExtraError(ObjectStatesError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class BackboneError(ObjectStatesError):
    """A backbone or its weights cannot be loaded."""


class DetectorError(ObjectStatesError):
    """A detector or its file cannot be used."""


class LabelError(ObjectStatesError):
    """Labels for training or evaluating a detector cannot be used."""


class NarrationError(ObjectStatesError):
    """Narrations, or the sentences to search them by, cannot be used."""


class TruthError(ObjectStatesError, ValueError):
    """Annotations cannot be read, or are of other clips."""


class CorrectionError(ObjectStatesError, ValueError):
    """Corrections cannot be read, contradict each other, or are of other clips."""


class ConfigurationError(ObjectStatesError):
    """A settings file cannot be read, or has unknown keys."""


class WorkspaceError(ObjectStatesError):
    """The folder of a discovery cannot be written, or holds other files."""


class ReportError(ObjectStatesError):
    """A report cannot be written."""


class ExportError(ObjectStatesError):
    """A result cannot be exported."""


class CutError(ObjectStatesError):
    """Clips cannot be cut, or the folder for their segments holds other files."""


class BenchmarkError(ObjectStatesError):
    """The data of a benchmark cannot be found or used."""
