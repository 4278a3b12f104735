"""Cut the clips of a result into before, action and after: new video files and lists of them.

`cut` is the entry point.
"""

from objectstates.cut.folder import Cut, cut

__all__ = ["Cut", "cut"]
