"""Retrieval of clips from long narrated videos: transcripts, text classifiers, clips; no images."""

from objectstates.narration.retrieval import Retrieved, retrieve, write_clips
from objectstates.narration.sentences import Sentences, action_names, load_action, read_sentences
from objectstates.narration.subtitles import (
    find_narrations,
    read_narration,
    read_narrations,
    write_webvtt,
)
from objectstates.narration.text_classifier import TfidfSvm, cross_validate
from objectstates.narration.transcript import Cue, Narration

__all__ = [
    "Cue",
    "Narration",
    "Retrieved",
    "Sentences",
    "TfidfSvm",
    "action_names",
    "cross_validate",
    "find_narrations",
    "load_action",
    "read_narration",
    "read_narrations",
    "read_sentences",
    "retrieve",
    "write_clips",
    "write_webvtt",
]
