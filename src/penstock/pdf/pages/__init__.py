"""The pages of a document: text with places, tables with cells, pictures with placements."""
