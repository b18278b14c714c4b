//! What serde_json says of a part of a file.

/// The problem without the line, which counts from where the part begins.
pub(crate) fn json_problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let problem = said.split(" at line ").next().unwrap_or(&said);
    format!("{problem} at column {}", error.column())
}
