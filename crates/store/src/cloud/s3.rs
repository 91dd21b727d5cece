//! S3: as the variables of Amazon's own clients say.

use std::io;

use object_store::ClientConfigKey;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

use super::credentials::{self, Credentials};
use super::{Opened, io_error, retries, with_silence, with_times};

pub(super) fn open(bucket: &str) -> io::Result<Opened> {
    let mut builder = with_times(AmazonS3Builder::from_env(), set)
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
    let store = with_silence(builder.clone(), set).build().map_err(io_error)?;
    Ok(Opened {
        store: Box::new(store),
        uploads: Box::new(builder.build().map_err(io_error)?),
        missing_credentials: (!has_credentials)
            .then_some("the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in ~/.aws/credentials"),
    })
}

fn set(builder: AmazonS3Builder, key: ClientConfigKey, value: String) -> AmazonS3Builder {
    builder.with_config(AmazonS3ConfigKey::Client(key), value)
}
