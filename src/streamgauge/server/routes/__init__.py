"""Routes, one module per resource.

releases            GET /api/releases
release_query       parameters of a request for a release
release_pages       pages of a release, and their formats
downloads           whole releases
download_formats    formats of a download
live                GET /api/live
ledger              GET /api/ledger
adhoc               plans and requests of analysts
mappers             POST /api/mappers/check
events              POST /api/events
reports             POST /api/reports
intrusions          POST /api/intrusions
login               sessions
metrics             GET /metrics
static              the page
"""
