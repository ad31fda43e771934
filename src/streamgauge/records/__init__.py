"""Records between a source and an engine.

blocks           whole lines
fields           raw fields and event times, in SQL
parquet          Parquet batches
reports          private reports as texts
source_schema    headers and schemas, compared with the declared columns
"""
