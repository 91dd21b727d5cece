# The rules of parsetrc.pl in its own language, written anew as plainly as such scripts are: time breakdown, events with their
# histograms, waits by statement. A peer for speed; what the numbers must be is tested elsewhere.
use strict;
use warnings;

my (%view, %count, %total, %bucket, %sql_of, %elapsed_of, %waited_of);
while (my $line = <>) {
    if ($line =~ /^WAIT #(\d+): nam='([^']*)' ela= *(\d+)/) {
        my ($cursor, $event, $ela) = ($1, $2, $3);
        $count{$event}++;
        $total{$event} += $ela;
        my $power = 0;
        $power++ while 1 << $power <= $ela;
        $bucket{$event}{$power}++;
        if ($event eq 'SQL*Net message from client') {
            $view{idle} += $ela;
        } else {
            $view{waits} += $ela;
            $waited_of{ $sql_of{$cursor} // '' }{$event} += $ela;
        }
    } elsif ($line =~ /^(?:PARSE|EXEC|FETCH) #(\d+):c=(\d+),e=(\d+),p=\d+,cr=\d+,cu=\d+,mis=\d+,r=\d+,dep=(\d+),/) {
        my ($cursor, $cpu, $elapsed, $depth) = ($1, $2, $3, $4);
        if ($depth == 0) {
            $view{cpu} += $cpu;
            $view{elapsed} += $elapsed;
        }
        $elapsed_of{ $sql_of{$cursor} // '' } += $elapsed;
    } elsif ($line =~ /^PARSING IN CURSOR #(\d+) .*sqlid='([^']*)'/) {
        $sql_of{$1} = $2;
    }
}
my $unaccounted = ($view{elapsed} // 0) - ($view{cpu} // 0) - ($view{waits} // 0);
print "$_ ", $view{$_} // 0, "\n" for qw(elapsed cpu waits idle);
print "unaccounted $unaccounted\n";
for my $event (sort { $total{$b} <=> $total{$a} } keys %total) {
    print "$event: $count{$event} $total{$event}";
    print " <", 1 << $_, ": $bucket{$event}{$_}" for sort { $a <=> $b } keys %{ $bucket{$event} };
    print "\n";
}
for my $sql (sort { $elapsed_of{$b} <=> $elapsed_of{$a} } keys %elapsed_of) {
    print "$sql $elapsed_of{$sql}";
    print " $_ $waited_of{$sql}{$_}" for sort keys %{ $waited_of{$sql} };
    print "\n";
}
