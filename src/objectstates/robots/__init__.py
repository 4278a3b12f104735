"""Datasets of robot demonstrations: their episodes as clips, and the robot's own signals."""
