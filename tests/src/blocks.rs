//! A table with one row to a block, so that a row's address says which block is read.

use std::path::PathBuf;

use dbtime::throwaway::Cluster;

/// Size of a block.
pub const BLOCK_BYTES: u64 = 8192;

/// See the module.
#[derive(Debug)]
pub struct TableOfBlocks {
    name: &'static str,
    blocks: u64,
    /// Its file relative to the data directory, as the server says.
    pub file: String,
    /// Paths of its files, for `page_cache`.
    pub files: Vec<PathBuf>,
}

impl TableOfBlocks {
    /// Creates it. At most 131072 blocks, so that it is one file.
    ///
    /// # Panics
    /// When the server cannot.
    pub fn create(cluster: &Cluster, name: &'static str, blocks: u64) -> TableOfBlocks {
        let psql = |sql: &str| cluster.psql(sql).unwrap_or_else(|e| panic!("{sql}: {e:#}"));
        psql(&format!(
            "CREATE TABLE {name} (id int, filler text); ALTER TABLE {name} ALTER filler SET STORAGE PLAIN;
             INSERT INTO {name} SELECT n, repeat('x', 5000) FROM generate_series(1, {blocks}) n"
        ));
        psql(&format!("VACUUM {name}"));
        psql("CHECKPOINT");
        let size = psql(&format!("SELECT pg_relation_size('{name}')"));
        assert_eq!(
            size,
            (blocks * BLOCK_BYTES).to_string(),
            "one row fills one block"
        );
        TableOfBlocks {
            name,
            blocks,
            file: psql(&format!("SELECT pg_relation_filepath('{name}')")),
            files: cluster.relation_files(name).expect("it was just made"),
        }
    }

    /// SQL that reads this many blocks one by one by address, each once: no two of them close together, and never the first, after which
    /// the kernel reads ahead.
    pub fn read_singly(&self, reads: u64) -> String {
        /// A prime that does not divide the number of blocks visits every block once.
        const STEP: u64 = 2531;
        let blocks = self.blocks;
        assert!(
            reads < blocks && !blocks.is_multiple_of(STEP),
            "each block is read once"
        );
        self.read_by(reads, &format!("(n * {STEP}) % {blocks}"))
    }

    /// SQL that reads every second block in order, from `first` on, so that the kernel reads ahead.
    pub fn read_every_second(&self, first: u64) -> String {
        self.read_by(self.blocks / 2 - 1, &format!("2 * n - 2 + {first}"))
    }

    fn read_by(&self, reads: u64, block: &str) -> String {
        format!(
            "DO $$ DECLARE found int; BEGIN
                 FOR n IN 1..{reads} LOOP
                     SELECT id INTO found FROM {} WHERE ctid = format('(%s,1)', {block})::tid;
                     IF found IS NULL THEN RAISE 'no row in block %', {block}; END IF;
                 END LOOP;
             END $$",
            self.name
        )
    }
}
