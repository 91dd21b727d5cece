//! Google Cloud Storage, configured by the variables of Google's own clients.

use std::io;

use object_store::ClientConfigKey;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

use super::{Opened, credentials, retries};

/// Variables that name a file of credentials.
const FILES: [&str; 4] = [
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "SERVICE_ACCOUNT",
];
/// Where `gcloud` puts them, in the home directory.
const USUAL: &str = ".config/gcloud/application_default_credentials.json";
/// Variables that are credentials, or say that none are needed.
const VARIABLES: [&str; 3] = [
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_BEARER_TOKEN",
    "GOOGLE_SKIP_SIGNATURE",
];

pub(super) fn open(bucket: &str) -> io::Result<Opened> {
    // The library reads the files itself, no matter who else can.
    let has_file = credentials::check_files(&FILES, USUAL)?;
    let has_credentials = has_file || VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    let builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries());
    let missing = (!has_credentials).then_some(
        "the environment (GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT_KEY) or in \
         ~/.config/gcloud/application_default_credentials.json",
    );
    Opened::new(builder, set, GoogleCloudStorageBuilder::build, missing)
}

fn set(builder: GoogleCloudStorageBuilder, key: ClientConfigKey, value: String) -> GoogleCloudStorageBuilder {
    builder.with_config(GoogleConfigKey::Client(key), value)
}
