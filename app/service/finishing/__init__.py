"""Finishing: complete attachments become content that can be read, from files, groups and data sets."""
