"""Drafts of pipeline files, for `streamgauge init`.

sample    first and last records of a source
draft     the draft
"""
