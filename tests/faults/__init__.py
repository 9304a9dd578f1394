"""Faults on purpose: damaged files, full disks, folders of strangers."""
