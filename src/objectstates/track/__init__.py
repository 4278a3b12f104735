"""Link detections through time into tracks, and cut tracks into tracklets; no features."""
