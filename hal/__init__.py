"""HAL: one interface to every accelerator, and a certificate that says what works."""

__version__ = "0.1.0"
