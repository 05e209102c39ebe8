"""Interfaces of the program for pipelines: `voxalign.interfaces.nipype` and `voxalign.interfaces.pydra`.

Each has a class for every command that works on files, with the options of the program as inputs and its files as
outputs. They are made from the descriptors in `voxalign/descriptors`, which are written from the declaration of the options;
neither package is imported before its interface is.
"""
