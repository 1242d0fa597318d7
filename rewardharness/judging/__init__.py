"""The judge: reads an instruction, routes a Library, weighs candidates, and says which edit people would prefer."""
