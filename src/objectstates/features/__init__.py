"""Features of frames and boxes: appearance (networks), motion (optical flow), bags of words."""
