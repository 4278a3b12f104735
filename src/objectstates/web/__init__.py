"""Local web pages: a server on 127.0.0.1, its protection, and the pages it serves."""
