//! The JSON schema of a host's inventory, from the types themselves. A copy for readers is committed as
//! docs/schema/inventory.schema.json.

use schemars::Schema;
use schemars::generate::SchemaSettings;

use super::Host;

/// Schema (draft 2020-12) of what [`Host`] serialises to.
pub fn inventory_schema() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Host>()
}
