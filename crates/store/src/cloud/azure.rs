//! Azure Blob Storage, configured by the variables of Azure's own clients.

use std::io;

use object_store::ClientConfigKey;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::{Opened, retries};

/// Variables that are credentials, or say where they come from.
const VARIABLES: [&str; 7] = [
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURE_SKIP_SIGNATURE",
];

pub(super) fn open(container: &str) -> io::Result<Opened> {
    let has_credentials = VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    let builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_retry(retries());
    let missing = (!has_credentials).then_some(
            "the environment (AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_KEY, for AZURE_STORAGE_ACCOUNT_NAME)",
        );
    Opened::new(builder, set, MicrosoftAzureBuilder::build, missing)
}

fn set(builder: MicrosoftAzureBuilder, key: ClientConfigKey, value: String) -> MicrosoftAzureBuilder {
    builder.with_config(AzureConfigKey::Client(key), value)
}
