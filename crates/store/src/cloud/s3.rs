//! S3, configured by the variables of Amazon's own clients.

use std::io;

use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::credentials::{self, Credentials};
use super::{Opened, retries};

pub(super) fn open(bucket: &str) -> io::Result<Opened> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_retry(retries());
    let known = credentials::of_amazon()?;
    let has_credentials = !matches!(known, Credentials::Host);
    if let Credentials::File { key, secret, token } = known {
        builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
    }
    let missing = (!has_credentials)
        .then_some("the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials");
    Opened::new(builder, set, AmazonS3Builder::build, missing)
}

fn set(builder: AmazonS3Builder, key: ClientConfigKey, value: String) -> AmazonS3Builder {
    builder.with_config(AmazonS3ConfigKey::Client(key), value)
}
