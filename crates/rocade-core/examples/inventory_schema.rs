//! Prints the JSON schema of the inventory, for docs/schema/inventory.schema.json.

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&rocade_core::host::inventory_schema())?);
    Ok(())
}
