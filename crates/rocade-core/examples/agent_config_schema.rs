//! Prints the JSON schema of `kind: AgentConfig`, for docs/schema/agent-config.schema.json.

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&rocade_core::config::agent_config_schema())?);
    Ok(())
}
