"""Complete attachments become content that can be read: files, groups and data sets."""
