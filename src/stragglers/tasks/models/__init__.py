"""Models as (init, apply) over plain parameter trees, some with kernels for one kind of device."""
