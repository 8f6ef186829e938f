"""Measuring a live device: what `hal hcd measure` does. docs/hcd.md says what each figure is."""

from hal.measure.description import description
from hal.measure.figures import Figure, Spread
from hal.measure.session import measure

__all__ = ["Figure", "Spread", "description", "measure"]
