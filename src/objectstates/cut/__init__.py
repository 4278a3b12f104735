"""Cut the clips of a result into before, action and after: new video files and lists of them.

`cut` is the entry point; `cut_dataset` makes a LeRobot dataset of the segments.
"""

from objectstates.cut.dataset import DatasetCut, cut_dataset
from objectstates.cut.folder import Cut, cut

__all__ = ["Cut", "DatasetCut", "cut", "cut_dataset"]
