"""Models as (init, apply) over plain parameter pytrees."""
