"""Ports from below: which files offer one, what they say of themselves, and calls into them.

Loading them and opening their devices stands above all of that: see hal.loading and hal.device.
"""
