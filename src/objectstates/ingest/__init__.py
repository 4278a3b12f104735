"""From video files to a corpus: runs detectors, tracker and features; defines none of them."""
