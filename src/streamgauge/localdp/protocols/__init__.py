"""Protocols of the local model, one per file.

randomised_response            the item, or another one of the list
unary_encoding                 a bit per item
hadamard_response              a code that agrees with half of the list
local_hashing                  a column of a hash
count_mean_sketch              Apple's CMS
hadamard_count_mean_sketch     Apple's HCMS
"""
