"""The porting kit: how large a port is, whether its library is sound, its build and its package.

All of it works on a port's own folder, outside of this project, with only the wheel installed.
"""
