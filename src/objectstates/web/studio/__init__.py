"""The page that leads from a folder of videos to a reviewed, exported result."""
