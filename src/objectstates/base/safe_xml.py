"""Parse XML of unknown origin."""

from __future__ import annotations

from xml.etree import ElementTree


def parse_xml(text: str) -> ElementTree.Element:
    """The root element; raise ValueError unless the text is XML without declarations of entities.

    Entities can be declared in a document type only: without one nothing is expanded or fetched.
    Text, unlike bytes, cannot declare another encoding either.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("XML with a document type is refused: its entities can be harmful")
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"not XML ({error})") from error
