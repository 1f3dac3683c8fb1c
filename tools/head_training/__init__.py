"""The parts of train_head.py: data written by a target, an EAGLE-3 head, its training and its acceptance."""
