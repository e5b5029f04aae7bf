"""State of a native package, for the random rounds: models, validators and serializers that live for many rounds."""

from typing import Annotated

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema


class Item(BaseModel):
    name: str
    count: Annotated[int, Field(ge=0, le=1000)] = 0
    parts: list["Item"] = []


class Ledger:
    def __init__(self):
        self.items = []
        self.validators = []
        self.refused = []

    def make(self, n):
        text = f'{{"name": "i{n}", "count": "{n % 900}", "parts": [{{"name": "p", "count": {n % 7}}}]}}'
        self.items.append(Item.model_validate_json(text))
        del self.items[:-40]

    def change(self, n):
        if self.items:
            item = self.items[n % len(self.items)]
            item.count = n
            self.items[n % len(self.items)] = item.model_copy(deep=n % 2 == 0, update={"name": f"c{n}"})

    def compile(self, n):
        fields = {f"f{i}": core_schema.model_field(core_schema.int_schema(ge=i)) for i in range(1 + n % 6)}
        made = type(f"Made{n}", (), {"__slots__": ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")})
        schema = core_schema.model_schema(made, core_schema.model_fields_schema(fields))
        self.validators.append((n, SchemaValidator(schema), SchemaSerializer(schema)))
        del self.validators[:-6]

    def refuse(self, n):
        try:
            Item(name=n, count=-n)
        except ValidationError as error:
            self.refused.append((error.error_count(), str(error)[:80], error))
        del self.refused[:-10]

    def work(self, n):
        (self.make, self.change, self.compile, self.refuse)[n % 4](n // 4)

    def describe(self):
        yield repr([item.model_dump_json() for item in self.items])
        yield repr([(count, text, error.errors(include_url=False)) for count, text, error in self.refused])
        for n, validator, serializer in self.validators:
            value = {f"f{i}": i + n for i in range(1 + n % 6)}
            yield repr((n, serializer.to_python(validator.validate_python(value))))


ledger = Ledger()
