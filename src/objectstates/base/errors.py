"""The errors that are a user's to mend. Their message names the place, the value and the remedy."""

from __future__ import annotations


class ObjectStatesError(Exception):
    """Base of all errors raised on purpose; the command line prints them and exits with 2."""


class CorpusError(ObjectStatesError):
    """A corpus, or what it is made from, is not what it must be."""


class StorageError(ObjectStatesError):
    """A disk has no room for what is computed, or may not be written to."""


class VideoError(ObjectStatesError):
    """A video, a folder of images or a list of clips cannot be read."""


class ResultError(ObjectStatesError):
    """A result folder cannot be read or written."""


class InfeasibleClipError(ObjectStatesError):
    """A clip admits no labelling: it has no two allowed tracklets that follow one another."""


class WorkerError(ObjectStatesError):
    """A worker process died."""


class SettingError(ObjectStatesError, ValueError):
    """A parameter has a value that makes no sense."""


class MissingExtraError(ObjectStatesError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class BackboneError(ObjectStatesError):
    """The network that describes frames, or its weights, cannot be loaded."""


class DetectorError(ObjectStatesError):
    """A detector, or the file that it comes from, cannot be used."""


class LabelError(ObjectStatesError):
    """Labels to train or judge a detector by cannot be used."""


class NarrationError(ObjectStatesError):
    """What is said in videos, or sentences to search it by, cannot be used."""


class TruthError(ObjectStatesError, ValueError):
    """What is said to be true of clips cannot be read, or says nothing about the clips at hand."""


class ConfigurationError(ObjectStatesError):
    """A file of settings cannot be read, or sets what there is not."""


class WorkspaceError(ObjectStatesError):
    """The folder of a discovery cannot be written, or is used for something else."""


class ReportError(ObjectStatesError):
    """A report cannot be written."""


class ExportError(ObjectStatesError):
    """A result cannot be written in a format, or not to that place."""


class BenchmarkError(ObjectStatesError):
    """Manipulations to compare methods on cannot be found or used."""
