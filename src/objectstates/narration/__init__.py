"""Retrieval of clips from long narrated videos by text: no images, no discovery."""
