//! A table whose columns come twice, once per run: side by side if there is room, otherwise one below the other.

/// Before the name of a row.
const INDENT: &str = "  ";
/// Between the runs.
const SEPARATOR: &str = " |";

pub(super) struct TwoRuns {
    pub(super) title: &'static str,
    pub(super) first_column: &'static str,
    /// Headings of the columns of a run.
    pub(super) columns: Vec<&'static str>,
    /// Headings above the columns of each run.
    pub(super) runs: [&'static str; 2],
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) cells: [Vec<String>; 2],
    /// A rule is drawn above it.
    pub(super) is_sum: bool,
}

impl TwoRuns {
    pub(super) fn render(&self, width: usize) -> String {
        let beside = self.block(&[0, 1]);
        let body = if beside.lines().all(|line| line.len() <= width) {
            beside
        } else {
            format!("{}\n{}", self.block(&[0]), self.block(&[1]))
        };
        format!("{}\n\n{body}", self.title)
    }

    fn block(&self, runs: &[usize]) -> String {
        let widths = self.column_widths();
        let width_of_run = widths.iter().map(|width| width + 1).sum::<usize>();
        let names = self.rows.iter().map(|row| row.name.len());
        let first = names.chain([self.first_column.len()]).max().unwrap_or(0);
        let line = |name: &str, parts: Vec<String>| {
            let line = format!("{INDENT}{name:<first$} {}", parts.join(SEPARATOR));
            format!("{}\n", line.trim_end())
        };
        let rule = "-".repeat(first + 1 + runs.len() * width_of_run + (runs.len() - 1) * SEPARATOR.len());
        let rule = format!("{INDENT}{rule}\n");

        let above = runs
            .iter()
            .map(|run| format!("{:^width_of_run$}", self.runs[*run]));
        let mut text = line("", above.collect());
        let heads = runs.iter().map(|_| cells(&self.columns, &widths));
        text += &line(self.first_column, heads.collect());
        text += &rule;
        for row in &self.rows {
            if row.is_sum {
                text += &rule;
            }
            let numbers = runs.iter().map(|run| cells(&row.cells[*run], &widths));
            text += &line(&row.name, numbers.collect());
        }
        text
    }

    /// The same in both runs, so that they can be compared by eye.
    fn column_widths(&self) -> Vec<usize> {
        let width = |(column, head): (usize, &&str)| {
            let cells = self.rows.iter().flat_map(|row| &row.cells);
            cells
                .map(|cells| cells[column].len())
                .chain([head.len()])
                .max()
                .unwrap_or(0)
        };
        self.columns.iter().enumerate().map(width).collect()
    }
}

fn cells<T: AsRef<str>>(cells: &[T], widths: &[usize]) -> String {
    cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!(" {:>width$}", cell.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_stand_side_by_side_only_where_there_is_room() {
        let row = |name: &str, is_sum| Row {
            name: name.to_string(),
            cells: [vec!["1.00".to_string()], vec!["10.00".to_string()]],
            is_sum,
        };
        let table = TwoRuns {
            title: "Title",
            first_column: "wait event",
            columns: vec!["total"],
            runs: ["one", "two"],
            rows: vec![row("CPU", false), row("DB time", true)],
        };
        let beside = "Title\n\
            \n              one   | two\n\
            \x20 wait event  total | total\n\
            \x20 -------------------------\n\
            \x20 CPU          1.00 | 10.00\n\
            \x20 -------------------------\n\
            \x20 DB time      1.00 | 10.00\n";
        assert_eq!(table.render(80), beside);
        let below = table.render(20);
        assert!(below.lines().all(|line| line.len() <= 20), "{below}");
        assert!(below.find("one") < below.find("two"), "{below}");
    }
}
