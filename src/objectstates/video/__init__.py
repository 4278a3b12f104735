"""Decoding of videos and lists of clips; nothing that interprets what the frames show."""
