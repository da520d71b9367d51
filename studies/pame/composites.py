"""Composited pictures with known truths: real Fashion-MNIST garments on scikit-image's real photographs.

No labelled pose or segmentation data comes with anything that is installed here, so garments are pasted:
their silhouettes give the label of every pixel, and the extremes of a silhouette the landmarks. Results on
them are labelled "composited". What is learned from and what is judged differ in garments (the data set's own
files) and in background (the left part of a photograph and the rest).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fluidnpu.models import ImageSet

SIDE = 40  # of a picture, in pixels
MAP = 20  # of its truth
SILHOUETTE = 40  # grey value of 255 above which a pixel belongs to a garment
PHOTOGRAPHS = ("astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "rocket")
LEFT = 0.6  # of a photograph's width, behind pictures to learn from
GROUPS = (1, 2, 1, 1, 1, 3, 1, 3, 4, 3)  # by class: tops 1, trousers 2, shoes 3, bags 4; the background is 0
LABELS = 5
CORNERS = 4  # the highest, lowest, leftmost and rightmost point of a silhouette

Floats = npt.NDArray[np.float64]


@lru_cache
def photographs() -> tuple[Floats, ...]:
    """Return scikit-image's photographs in grey (height, width), each with a value of 0..255 a pixel."""
    from skimage import color, data, transform

    composites = []
    for name in PHOTOGRAPHS:
        picture = np.asarray(getattr(data, name)(), np.float64)
        grey = 255 * color.rgb2gray(picture / 255) if picture.ndim == 3 else picture
        scale = 160 / min(grey.shape)
        sizes = [round(side * scale) for side in grey.shape]
        composites.append(np.asarray(transform.resize(grey, sizes, anti_aliasing=True), np.float64))  # type: ignore[no-untyped-call]
    return tuple(composites)


def background(rng: np.random.Generator, seen: bool) -> Floats:
    """Return a crop (SIDE, SIDE) of a photograph: of its left part if it may be `seen` in training."""
    picture = photographs()[int(rng.integers(len(PHOTOGRAPHS)))]
    height, width = picture.shape
    edge = int(LEFT * width)
    first, end = (0, edge) if seen else (edge, width)
    row, column = int(rng.integers(height - SIDE + 1)), int(rng.integers(first, end - SIDE + 1))
    return picture[row : row + SIDE, column : column + SIDE]


class Pose:
    """A turn, a size and a place of a garment (28 x 28) in a picture."""

    def __init__(self, rng: np.random.Generator, sizes: tuple[float, float], turn: float) -> None:
        angle, size = np.deg2rad(rng.uniform(-turn, turn)), rng.uniform(*sizes)
        cosine, sine = np.cos(angle), np.sin(angle)
        self.matrix = np.array([[cosine, -sine], [sine, cosine]]) * size  # from garment to picture
        room = SIDE / 2 - 14 * size * 0.9
        self.centre = SIDE / 2 + rng.uniform(-room, room, 2)

    def placed(self, garment: Floats) -> Floats:
        """Return the garment in a picture (SIDE, SIDE), zero around it."""
        from scipy.ndimage import affine_transform

        back = np.linalg.inv(self.matrix)
        return np.asarray(affine_transform(garment, back, 14 - back @ self.centre, (SIDE, SIDE), order=1))

    def moved(self, points: Floats) -> Floats:
        """Return points (n, 2) of the garment as shares of the picture's height and width."""
        return np.asarray(((points - 14) @ self.matrix.T + self.centre + 0.5) / SIDE)


def corners(silhouette: npt.NDArray[np.bool_]) -> Floats:
    """Return the highest, lowest, leftmost and rightmost point (4, 2) of a silhouette, each in the middle of
    its pixels.
    """
    rows, columns = np.nonzero(silhouette)
    ends = ((rows, rows.min()), (rows, rows.max()), (columns, columns.min()), (columns, columns.max()))
    return np.array([[rows[line == end].mean(), columns[line == end].mean()] for line, end in ends])


def landmarks(garments: ImageSet, count: int, seed: int, *, seen: bool) -> ImageSet:
    """Return pictures with one turned garment each, and its four corners as shares, (count, 4, 2)."""
    rng = np.random.default_rng(seed)
    pictures, truths = np.empty((count, SIDE, SIDE, 1), np.uint8), np.empty((count, CORNERS, 2))
    for index in range(count):
        garment = _garment(garments, rng)[0]
        pose = Pose(rng, (0.75, 1.1), 35)
        picture = _pasted(background(rng, seen), pose.placed(garment), rng)[0]
        pictures[index, ..., 0] = picture
        truths[index] = np.clip(pose.moved(corners(garment > SILHOUETTE)), 0, 1)
    return ImageSet(images=pictures, labels=truths, source="composited landmarks")


def segmentation(garments: ImageSet, count: int, seed: int, *, seen: bool) -> ImageSet:
    """Return pictures with one to three garments each, and the label of each pixel of a MAP x MAP truth."""
    rng = np.random.default_rng(seed)
    pictures, truths = np.empty((count, SIDE, SIDE, 1), np.uint8), np.zeros((count, MAP, MAP), np.int64)
    step = SIDE // MAP
    for index in range(count):
        picture, truth = background(rng, seen), np.zeros((SIDE, SIDE), np.int64)
        for _ in range(int(rng.integers(1, 4))):
            garment, name = _garment(garments, rng)
            picture, there = _pasted(picture, Pose(rng, (0.45, 0.85), 35).placed(garment), rng)
            truth[there] = GROUPS[name]
        pictures[index, ..., 0] = picture
        blocks = truth.reshape(MAP, step, MAP, step).transpose(0, 2, 1, 3).reshape(MAP, MAP, -1)
        truths[index] = np.array([(blocks == label).sum(-1) for label in range(LABELS)]).argmax(0)
    return ImageSet(images=pictures, labels=truths, source="composited segmentation")


def _garment(garments: ImageSet, rng: np.random.Generator) -> tuple[Floats, int]:
    chosen = int(rng.integers(len(garments)))
    return garments.images[chosen, ..., 0].astype(np.float64), int(garments.labels[chosen])


def _pasted(picture: Floats, garment: Floats, rng: np.random.Generator) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the picture with a garment on it, in a contrast of its own, and where the garment is."""
    there = garment > SILHOUETTE
    cloth = np.clip(garment * rng.uniform(0.6, 1.0) + rng.uniform(-20, 20), 0, 255)
    return np.where(there, cloth, picture), there


MAKERS: dict[str, Any] = {"landmarks": landmarks, "segmentation": segmentation}
NAMES: Sequence[str] = tuple(MAKERS)
