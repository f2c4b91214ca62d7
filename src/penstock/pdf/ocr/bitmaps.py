"""The arrays that pass between the steps of recognition."""

import numpy as np
from numpy.typing import NDArray

Bitmap = NDArray[np.uint8]  # rows, columns, BGR
Quads = NDArray[np.float32]  # of each line its corners: top left, top right, bottom right, bottom left
