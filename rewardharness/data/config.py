"""Configuration of the data of a job."""

import dataclasses
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rewardharness.codec import READS, TEXT
from rewardharness.errors import InputError

if TYPE_CHECKING:  # help and wrong arguments are shown without loading data
    from rewardharness.data.fields import FieldMap


@dataclass(frozen=True)
class DataConfig:
    """Data, and the columns of a table.

    Data are a folder, a table (`.parquet`, `.jsonl`, `.csv`, ...), `org/name[@revision][:config/split]` on the Hub,
    `demo` (generated pairs) or `feedback` (votes from the app). Fields are `source`, `instruction`, `candidates`
    (several, with commas), `preference`, `values` (as in `leftvote:A,rightvote:B`), `id`, `category`, ...; omitted ones
    are recognized by name. An invalid row (no image, no instruction, unknown label) is an error unless such rows are
    skipped: then they are listed and count as not judged.
    """

    data: str = dataclasses.field(metadata=READS)
    """Folder, table, Hub dataset, demo or feedback."""
    _: KW_ONLY
    fields: Path | None = dataclasses.field(default=None, metadata=READS)
    """YAML file that maps fields to columns (docs/reference/data.md)."""
    field: tuple[str, ...] = dataclasses.field(default=(), metadata=TEXT)
    """FIELD=COLUMN, as in source=before; may be repeated."""
    skip_bad_rows: bool = False
    """Skip and list invalid rows instead of failing."""

    @property
    def field_map(self) -> "FieldMap | None":
        """The columns; single fields take precedence over the file. None if nothing is given.

        Raises:
            InputError: If a field cannot be read.
        """
        from rewardharness.data.fields import FieldMap, parse_fields, read_fields

        if self.fields is None and not self.field:
            return None
        pairs: dict[str, str] = {}
        for text in self.field:
            name, equals, column = text.partition("=")
            if not equals or not column.strip() or name.strip() in pairs:
                step = "Write each field once, as in --field source=source_image; --field id=- says that there is none."
                raise InputError(f"--field {text!r} cannot be read.", next_step=step)
            pairs[name.strip()] = column
        base = read_fields(self.fields) if self.fields is not None else FieldMap()
        return parse_fields(pairs, "--field").over(base)
