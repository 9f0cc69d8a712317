(ns reply)

(def last-one (atom nil))

(defn reply [body type answer]
  (reset! last-one [body type])
  (js/setTimeout #(apply answer @last-one) 100))
