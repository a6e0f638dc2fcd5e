"""What people look at: tables, figures, exports and the HTML page, made from run folders alone.

Never loads jax. Imports `_core` to `runs`.
"""
